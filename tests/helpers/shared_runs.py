"""Run files that workflow tests share: a small one, and its extension."""

from __future__ import annotations

GRID = (0.2, 0.25, 0.8)
SAMPLES = 5
FINISHED = f"""\
run: tiny
models: [toy]
datasets: [toy-sentiment]
methods: all
max_samples: {SAMPLES}
block_size: 2
sensitivity: false
qualitative: null
generation: {{max_new_tokens: 6, step_interval: 3}}
evaluation: {{pi_grid: {[*GRID]}, draws: 2}}
ranking: {{answer_deletion: true}}
catalogue:
  models:
    toy:
      label: Toy
      source: {{kind: local, path: toy-model}}
      device: cpu
      resources: {{mem_mb: 1000, runtime: 5}}
  datasets:
    toy-sentiment:
      extends: demo-sentiment
      label: Toy sentiment
"""
HOSTILE = "Toy</script><script>window.hacked = 1</script><img src=x onerror='window.hacked = 1'>"
STUDY = """\
layer_study:
  {depths: [1, 2], token_weights: [loosened], datasets: [toy-sentiment], development_share: 0.5}
"""
STUDIED = (
    FINISHED.replace("[toy-sentiment]", "[toy-sentiment, demo-why]")
    .replace("Toy sentiment", f'"{HOSTILE}"')
    .replace("ranking: {", "ranking: {counterfactuals: records, ")
    .replace("block_size: 2\n", "block_size: 2\nstop: {against: all_pairs, clip_nc: 0.25}\n")
    .replace("sensitivity: false\nqualitative: null\n", STUDY)
)
