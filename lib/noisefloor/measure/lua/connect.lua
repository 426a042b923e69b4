-- One event is one new connection, with --queries=N point selects over it, and its end. The client
-- is the C library of sysbench itself (libmariadb), called directly: only so can TLS be asked for
-- by version and checked on every connection. A connection that is not what the arm says is fatal.
local ffi = require("ffi")
local session = dofile(debug.getinfo(1, "S").source:match("^@(.*/)") .. "session.lua")
ffi.cdef [[
void *mysql_init(void *);
int mysql_options(void *, int, const void *);
void *mysql_real_connect(void *, const char *, const char *, const char *, const char *,
                         unsigned int, const char *, unsigned long);
const char *mysql_get_ssl_cipher(void *);
const char *mysql_error(void *);
const char *mysql_get_client_info(void);
int mysql_query(void *, const char *);
void *mysql_store_result(void *);
char **mysql_fetch_row(void *);
void mysql_free_result(void *);
void mysql_close(void *);
]]
local lib = ffi.load("libmariadb.so.3")
local OPT_SSL_CA, OPT_SSL_ENFORCE, OPT_TLS_VERSION = 27, 38, 41

sysbench.cmdline.options = {
   tls = {"none, TLSv1.2 or TLSv1.3", "none"},
   ca = {"Certificate of the authority that signed the server's", ""},
   queries = {"Point selects over each connection", 0},
   table_size = {"Rows of the table", 1000},
}

local o, where

local function failed(con, what)
   error(what .. ": " .. ffi.string(lib.mysql_error(con)))
end

local function connect()
   local con = lib.mysql_init(nil)
   if o.tls ~= "none" then
      local on = ffi.new("char[1]", 1)
      lib.mysql_options(con, OPT_SSL_ENFORCE, on)
      lib.mysql_options(con, OPT_SSL_CA, o.ca)
      lib.mysql_options(con, OPT_TLS_VERSION, o.tls)
   end
   if lib.mysql_real_connect(con, where.host, o.mysql_user, o.mysql_password, o.mysql_db,
                             where.port, nil, 0) == nil then
      failed(con, "no connection")
   end
   if (lib.mysql_get_ssl_cipher(con) ~= nil) ~= (o.tls ~= "none") then
      error("asked for TLS " .. o.tls .. ", but the session has " ..
            (o.tls == "none" and "a cipher" or "no cipher"))
   end
   return con
end

local function first(con, statement)
   if lib.mysql_query(con, statement) ~= 0 then failed(con, statement) end
   local result = lib.mysql_store_result(con)
   local row, value = lib.mysql_fetch_row(result), ""
   if row ~= nil then value = ffi.string(row[statement:find("SHOW") and 1 or 0]) end
   lib.mysql_free_result(result)
   return value
end

local function one(value)  -- of an option that may be given several times
   if type(value) == "table" then return value[1] end
   return value
end

function thread_init()
   o = sysbench.opt
   where = {host = one(o.mysql_host), port = tonumber(one(o.mysql_port))}
   if sysbench.tid == 0 then  -- before the clock starts: what the server says of such a session
      local con = connect()
      print("session: " .. first(con, "SHOW SESSION STATUS LIKE 'Ssl_version'") .. " " ..
            first(con, "SHOW SESSION STATUS LIKE 'Ssl_cipher'"))
      print("certificate: " .. session.key(session.of(con)))
      print("client: libmariadb " .. ffi.string(lib.mysql_get_client_info()) .. ", " ..
            session.library())
      lib.mysql_close(con)
   end
end

function event()
   local con = connect()
   session.count(session.of(con))
   for _ = 1, o.queries do
      first(con, "SELECT c FROM sbtest1 WHERE id=" .. sysbench.rand.uniform(1, o.table_size))
   end
   lib.mysql_close(con)
end

function thread_done()
   session.print_counted()
end
