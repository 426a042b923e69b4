"""What a notebook shows of campaigns: their tables, judged as each campaign itself judged them."""

from noisefloor.data.results.campaign import Results, beside, cut, load, named, names
from noisefloor.data.results.differences import advice, apart
from noisefloor.data.results.tables import PROCESSOR, THROUGHPUT

__all__ = ["PROCESSOR", "THROUGHPUT", "Results", "advice", "apart", "beside", "cut", "load"]
__all__ += ["named", "names"]
