"""Files that carry the data: schemas, checked reading and writing, shards, provenance."""
