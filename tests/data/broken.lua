function event( x
