"""Any tree of results -> tables of Parquet, and what is compared in them.

``labels`` (a path says), ``unpack`` (a file -> texts), ``walk`` (a tree -> files), ``table`` (what
is written), ``part`` (files -> a part), ``build`` (a tree -> the tables), ``judged`` (the tables ->
verdict rows).
"""

from .table import NotATable, frame, manifest, opened

__all__ = ["NotATable", "frame", "manifest", "opened"]
