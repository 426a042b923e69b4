-- A sysbench script whose threads wait, once they are connected, until they are let go: connections
-- are made before the clock. NOISEFLOOR_SCRIPT is the script, by name or path; NOISEFLOOR_GATE a folder
-- that holds `ready`, a byte for each thread that waits, and `go`, a FIFO that somebody opens.
local script, gate = os.getenv("NOISEFLOOR_SCRIPT"), os.getenv("NOISEFLOOR_GATE")
if script:match("%.lua$") then dofile(script) else require(script) end

local init = thread_init

function thread_init()
   if init then init() end
   local ready = io.open(gate .. "/ready", "a")
   ready:write(".")
   ready:close()
   io.open(gate .. "/go", "r"):close()
end
