-- Read/write transactions with a known amount of processor work added to each: --work=N hashes
-- N times on the server. The calibration injects slowdowns with it; N=0 costs the same round trip.
require("oltp_read_write")

sysbench.cmdline.options.work = {"Rounds of hashing that a transaction adds on the server", 0}

local transaction = event

function event()
   con:query(string.format("DO BENCHMARK(%d, SHA2('noisefloor', 256))", sysbench.opt.work))
   transaction()
end
