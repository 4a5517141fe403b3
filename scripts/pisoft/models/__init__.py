"""Language models: loading, attention probe, gradients, generation, batching."""
