-- What a client's own session says, for the scripts beside this one: the version of TLS and the group
-- of its key exchange, counted over all connections of a thread; the key of the server's certificate;
-- the client's libraries. libmariadb tells no group: its session leads to that of OpenSSL, which does.
local ffi = require("ffi")
ffi.cdef [[
typedef struct nf_pvio nf_pvio;
typedef struct { nf_pvio *pvio; } nf_mysql;
typedef struct { void *data; nf_pvio *pvio; void *ssl; } nf_tls;
struct nf_pvio {
   void *data;
   unsigned char *cache, *cache_pos;
   size_t cache_size;
   int type, timeout[3], ssl_type;
   nf_tls *ctls;
   nf_mysql *mysql;
};
char mariadb_get_infov(void *, int, void *, ...);
const char *OpenSSL_version(int);
const char *SSL_get_version(const void *);
long SSL_ctrl(void *, int, long, void *);
const char *SSL_group_to_name(void *, int);
void *SSL_get1_peer_certificate(const void *);
void *X509_get0_pubkey(const void *);
void X509_free(void *);
int EVP_PKEY_is_a(const void *, const char *);
int EVP_PKEY_get_bits(const void *);
]]
local lib, ssl, crypto = ffi.load("libmariadb.so.3"), ffi.load("libssl.so.3"), ffi.load("libcrypto.so.3")
local TLS_LIBRARY, GET_NEGOTIATED_GROUP, NO_NID = 22, 134, 0x1000000

local session, names, counted, checked = {}, {}, {}, false

function session.library()
   return ffi.string(crypto.OpenSSL_version(0))
end

local function check_library()  -- a session of another library than OpenSSL is not to be followed
   local linked = ffi.new("const char *[1]")
   lib.mariadb_get_infov(nil, TLS_LIBRARY, linked)
   local said = linked[0] ~= nil and ffi.string(linked[0]) or "no library"
   if not said:match("^OpenSSL ") then
      error("libmariadb has its TLS from " .. said .. ": only of OpenSSL the group can be told")
   end
   checked = true
end

-- The session of OpenSSL under a MYSQL of libmariadb; nil where there is no TLS. Every pointer is
-- followed only once it has led back to where it came from.
function session.of(connection)
   local mysql = ffi.cast("nf_mysql *", connection)
   local pvio = mysql.pvio
   if pvio == nil or pvio.mysql ~= mysql then
      error("this libmariadb keeps a connection in another way: its session cannot be read")
   end
   local tls = pvio.ctls
   if tls == nil then return nil end
   if tls.pvio ~= pvio then
      error("this libmariadb keeps a session in another way: its group cannot be read")
   end
   if not checked then check_library() end
   return tls.ssl
end

local function group(own)
   local id = tonumber(ssl.SSL_ctrl(own, GET_NEGOTIATED_GROUP, 0, nil))
   if id == 0 then return "none" end
   if not names[id] then
      local known, name = pcall(function() return ssl.SSL_group_to_name(own, id) end)
      if known and name ~= nil then
         names[id] = ffi.string(name)
      else  -- its number, where this OpenSSL has no name for it
         names[id] = id >= NO_NID and ("0x%04x"):format(id % 0x10000) or ("nid%d"):format(id)
      end
   end
   return names[id]
end

function session.key(own)
   local certificate = own ~= nil and ssl.SSL_get1_peer_certificate(own) or nil
   if certificate == nil then return "none" end
   local key = crypto.X509_get0_pubkey(certificate)
   local bits, kind = crypto.EVP_PKEY_get_bits(key), "another kind of key, "
   if crypto.EVP_PKEY_is_a(key, "RSA") == 1 then kind = "RSA " end
   if crypto.EVP_PKEY_is_a(key, "EC") == 1 then kind = "P-" end
   crypto.X509_free(certificate)
   return kind .. bits
end

function session.count(own)
   local kind = "none none"
   if own ~= nil then kind = ffi.string(ssl.SSL_get_version(own)) .. " " .. group(own) end
   counted[kind] = (counted[kind] or 0) + 1
end

function session.print_counted()  -- at the end of a thread, each line in one piece
   for kind, n in pairs(counted) do io.write(("sessions: %d %s\n"):format(n, kind)) end
end

return session
