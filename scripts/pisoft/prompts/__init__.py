"""Prompts: chat templates, and exact masks of the record's tokens."""
