-- Large transactions: each changes a thousand rows one after the other, some 400 kB of row images in
-- the binary log, more than the cache of a session holds. Tables are those of oltp_read_write.
require("oltp_read_write")

sysbench.cmdline.options.rows = {"Rows that a transaction changes", 1000}

function event()
   local opt = sysbench.opt
   local rows = math.min(opt.rows, opt.table_size)
   local first = sysbench.rand.uniform(1, opt.table_size - rows + 1)
   con:query("BEGIN")
   con:query(string.format("UPDATE sbtest%d SET c = REVERSE(c) WHERE id BETWEEN %d AND %d",
                           sysbench.rand.uniform(1, opt.tables), first, first + rows - 1))
   con:query("COMMIT")
end
