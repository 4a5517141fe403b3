"""What tests build: models, runs, rows of results, and stand-ins for what is outside."""
