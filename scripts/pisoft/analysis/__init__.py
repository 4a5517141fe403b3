"""Statistics, tables and figures made from the result files; nothing here needs torch."""
