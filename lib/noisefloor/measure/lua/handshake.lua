-- One event is one new connection over TLS up to a completed login, and its end: what connect.lua
-- does, by a client that can keep what libmariadb makes anew each time: the context (--keep=context)
-- or the whole session, which is then resumed (--keep=session). A session that was not resumed is
-- fatal. MySQL's protocol: the server's greeting, the request for TLS, the handshake, the login with
-- caching_sha2_password, COM_QUIT.
local ffi = require("ffi")
local bit = require("bit")
local tls = dofile(debug.getinfo(1, "S").source:match("^@(.*/)") .. "session.lua")
ffi.cdef [[
typedef struct { uint16_t family; uint16_t port; uint32_t address; char zero[8]; } nf_address;
int socket(int, int, int);
int connect(int, const nf_address *, unsigned int);
int setsockopt(int, int, int, const void *, unsigned int);
long read(int, void *, size_t);
long write(int, const void *, size_t);
int close(int);
const void *TLS_client_method(void);
void *SSL_CTX_new(const void *);
void SSL_CTX_free(void *);
int SSL_CTX_load_verify_locations(void *, const char *, const char *);
void SSL_CTX_set_verify(void *, int, void *);
void *SSL_new(void *);
void SSL_free(void *);
int SSL_set_fd(void *, int);
int SSL_set_session(void *, void *);
int SSL_connect(void *);
int SSL_read(void *, void *, int);
int SSL_write(void *, const void *, int);
int SSL_shutdown(void *);
int SSL_session_reused(const void *);
void *SSL_get1_session(void *);
void SSL_SESSION_free(void *);
const void *SSL_get_current_cipher(const void *);
const char *SSL_CIPHER_get_name(const void *);
unsigned char *SHA256(const unsigned char *, size_t, unsigned char *);
]]
local ssl, crypto = ffi.load("libssl.so.3"), ffi.load("libcrypto.so.3")

sysbench.cmdline.options = {
   keep = {"What is kept from one connection to the next: nothing, context or session", "nothing"},
   ca = {"Certificate of the authority that signed the server's", ""},
   strangers = {"Users of whom each logs in once, so that the server asks for the password; 0: none", 0},
   table_size = {"Rows of the table (not used)", 1000},
}

-- CLIENT_LONG_PASSWORD, CONNECT_WITH_DB, PROTOCOL_41, SSL, SECURE_CONNECTION, PLUGIN_AUTH
local CAN = 0x00000001 + 0x00000008 + 0x00000200 + 0x00000800 + 0x00008000 + 0x00080000
local PLUGIN = "caching_sha2_password"
local buffer = ffi.new("unsigned char[16384]")
local o, where, context, session, stranger

local function one(value)  -- of an option that may be given several times
   if type(value) == "table" then return value[1] end
   return value
end

local function little(value, bytes)
   local out = {}
   for i = 1, bytes do
      out[i] = string.char(value % 256)
      value = math.floor(value / 256)
   end
   return table.concat(out)
end

local function sha256(text)
   local out = ffi.new("unsigned char[32]")
   crypto.SHA256(text, #text, out)
   return ffi.string(out, 32)
end

local function scramble(password, nonce)
   local first = sha256(password)
   local second, out = sha256(sha256(first) .. nonce), {}
   for i = 1, 32 do out[i] = string.char(bit.bxor(first:byte(i), second:byte(i))) end
   return table.concat(out)
end

local function whole(read)  -- one packet: three bytes of length, its number, what it holds
   local function bytes(n)
      local have = 0
      while have < n do
         local got = tonumber(read(buffer + have, n - have))
         if got <= 0 then error("the server ended the connection") end
         have = have + got
      end
      return ffi.string(buffer, n)
   end
   local a, b, c = bytes(4):byte(1, 3)
   return bytes(a + 256 * b + 65536 * c)
end

local function packet(number, text)
   return little(#text, 3) .. string.char(number) .. text
end

local function new_context()
   local made = ssl.SSL_CTX_new(ssl.TLS_client_method())
   if ssl.SSL_CTX_load_verify_locations(made, o.ca, nil) ~= 1 then error("no CA in " .. o.ca) end
   ssl.SSL_CTX_set_verify(made, 1, nil)
   return made
end

local function login(user)
   local fd = ffi.C.socket(2, 1, 0)
   local on = ffi.new("int[1]", 1)
   ffi.C.setsockopt(fd, 6, 1, on, 4)  -- TCP_NODELAY
   if ffi.C.connect(fd, where, 16) ~= 0 then error("no connection to the server") end
   local greeting = whole(function(into, n) return ffi.C.read(fd, into, n) end)
   local at = greeting:find("\0", 2, true) + 5  -- behind its version and the thread's number
   local nonce = greeting:sub(at, at + 7) .. greeting:sub(at + 27, at + 38)
   local head = little(CAN, 4) .. little(16777216, 4) .. string.char(45) .. string.rep("\0", 23)
   local request = packet(1, head)
   ffi.C.write(fd, request, #request)
   local own = context or new_context()
   if o.keep ~= "nothing" then context = own end
   local con = ssl.SSL_new(own)
   ssl.SSL_set_fd(con, fd)
   if session then ssl.SSL_set_session(con, session) end
   if ssl.SSL_connect(con) ~= 1 then error("no TLS with the server") end
   local function read(into, n) return ssl.SSL_read(con, into, n) end
   local function send(text) ssl.SSL_write(con, text, #text) end
   local password = one(o.mysql_password)
   send(packet(2, head .. user .. "\0" .. string.char(32) ..
        scramble(password, nonce) .. one(o.mysql_db) .. "\0" .. PLUGIN .. "\0"))
   local said = whole(read)
   local asked = said:byte(1) == 1 and said:byte(2) == 4
   if asked then send(packet(4, password .. "\0")) end
   if said:byte(1) == 1 then said = whole(read) end
   if said:byte(1) ~= 0 then error("the login was refused") end
   return fd, con, own, asked
end

local function leave(fd, con, own)
   if session and ssl.SSL_session_reused(con) ~= 1 then
      error("the session should be resumed, but the server made a new one")
   end
   if o.keep == "session" then
      if session then ssl.SSL_SESSION_free(session) end
      session = ssl.SSL_get1_session(con)
   end
   local quit = packet(0, "\1")
   ssl.SSL_write(con, quit, #quit)
   ssl.SSL_shutdown(con)
   ssl.SSL_free(con)
   if not context then ssl.SSL_CTX_free(own) end
   ffi.C.close(fd)
end

function thread_init()
   o = sysbench.opt
   where = ffi.new("nf_address")
   local port = tonumber(one(o.mysql_port))
   local a, b, c, d = one(o.mysql_host):match("(%d+)%.(%d+)%.(%d+)%.(%d+)")
   where.family = 2
   where.port = bit.bor(bit.lshift(bit.band(port, 255), 8), bit.rshift(port, 8))
   where.address = a + 256 * b + 65536 * c + 16777216 * d
   local fd, con, own = login(one(o.mysql_user))  -- before the clock starts; the first session there is to resume
   if sysbench.tid == 0 then
      print("session: " .. ffi.string(ssl.SSL_get_version(con)) .. " " ..
            ffi.string(ssl.SSL_CIPHER_get_name(ssl.SSL_get_current_cipher(con))))
      print("certificate: " .. tls.key(con))
      print("client: " .. tls.library())
   end
   leave(fd, con, own)
end

function event()
   local user = one(o.mysql_user)
   if o.strangers > 0 then
      stranger = stranger and stranger + o.threads or sysbench.tid
      if stranger >= o.strangers then error("more logins than there are users") end
      user = "stranger" .. stranger
   end
   local fd, con, own, asked = login(user)
   if asked ~= (o.strangers > 0) then
      error(asked and "the server asked for a password that it should have in its cache" or
            "the server had a password in its cache that it should ask for")
   end
   tls.count(con)
   leave(fd, con, own)
end

function thread_done()
   tls.print_counted()
end
