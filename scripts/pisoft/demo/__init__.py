"""The embedded default: synthetic records, tiny tokenizers, tiny models and their training."""
