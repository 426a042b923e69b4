"""A campaign or an archive, opened; logs of two folders; trees into tables."""
