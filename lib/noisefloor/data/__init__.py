"""Opens a campaign, an archive, or the logs of two folders; makes tables of trees."""
