"""Any tree of results -> tables of Parquet, and what is compared in them.

``labels`` (a path says), ``files`` (a tree -> files -> texts), ``table`` (what is written and
opened), ``part`` (files -> a part), ``build`` (a tree -> the tables).
"""

from noisefloor.data.ingest.table import NotATable, frame, manifest, opened

__all__ = ["NotATable", "frame", "manifest", "opened"]
