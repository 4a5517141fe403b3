"""The run file of a run with two datasets, a layer study, and a label that is a script."""

from __future__ import annotations

HOSTILE = "Toy</script><script>window.hacked = 1</script><img src=x onerror='window.hacked = 1'>"
GRID = (0.2, 0.25, 0.8)
SAMPLES = 6
RUN_FILE = f"""\
run: tiny
models: [toy]
datasets: [toy-sentiment, demo-why]
methods: all
max_samples: {SAMPLES}
generation: {{max_new_tokens: 6, step_interval: 3}}
evaluation: {{pi_grid: {[*GRID]}, draws: 2}}
layer_study:
  {{depths: [1, 2], token_weights: [loosened], datasets: [toy-sentiment], development_share: 0.5}}
catalogue:
  models:
    toy:
      label: Toy
      source: {{kind: local, path: toy-model}}
      resources: {{mem_mb: 1000, runtime: 5}}
  datasets:
    toy-sentiment:
      extends: demo-sentiment
      label: "{HOSTILE}"
"""
