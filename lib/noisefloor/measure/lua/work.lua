-- Read/write transactions with a known amount of processor work added to each: --work=N hashes
-- N times on the server; --pause=MS sleeps there as well. The calibration injects slowdowns with it;
-- N=0 and MS=0 cost the same round trips.
require("oltp_read_write")

sysbench.cmdline.options.work = {"Rounds of hashing that a transaction adds on the server", 0}
sysbench.cmdline.options.pause = {"Milliseconds that it sleeps there; -1: it does not ask for any", -1}

local transaction = event

function event()
   con:query(string.format("DO BENCHMARK(%d, SHA2('noisefloor', 256))", sysbench.opt.work))
   if sysbench.opt.pause >= 0 then
      con:query(string.format("DO SLEEP(%g)", sysbench.opt.pause / 1000))
   end
   transaction()
end
