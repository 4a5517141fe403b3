"""Pages, one file each: front page, explorer, comparison with the paper and others."""
