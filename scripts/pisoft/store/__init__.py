"""Data files: schemas, validated reading and writing, shards, provenance."""
