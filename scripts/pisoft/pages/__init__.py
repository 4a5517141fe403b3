"""One file for each page: front page, explorer, comparison with the paper, part of README."""
