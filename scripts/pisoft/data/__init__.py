"""Data: sources, sampling, prompts, and synthetic records with planted evidence."""
