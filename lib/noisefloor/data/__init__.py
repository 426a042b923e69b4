"""Opens campaigns, archives and logs, and turns trees of results into tables."""
