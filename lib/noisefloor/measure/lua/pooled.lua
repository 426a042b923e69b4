-- oltp_read_write over connections that stay open, each of whose sessions is looked at before the first
-- transaction. sysbench's driver keeps its MYSQL first in what its connection points to.
require("oltp_read_write")
local ffi = require("ffi")
local session = dofile(debug.getinfo(1, "S").source:match("^@(.*/)") .. "session.lua")
ffi.cdef [[
typedef struct { void *mysql; } nf_driver_connection;
typedef struct {
   int error, sql_errno;
   const char *sql_state, *sql_errmsg;
   void *driver;
   nf_driver_connection *own;
} nf_connection;
]]

local init, done = thread_init, thread_done

function thread_init()
   init()
   session.count(session.of(ffi.cast("nf_connection *", con).own.mysql))
end

function thread_done()
   session.print_counted()
   done()
end
