"""The benchmark from Python, without a workflow: what `import pisoft` offers.

Everything is computed by the functions that the workflow's scripts call, so numbers are the same.
"""

from pisoft.api.attribution import attribute
from pisoft.api.evaluation import evaluate, plot
from pisoft.api.models import load, load_masked
from pisoft.api.prompts import prompt
from pisoft.api.scores import Scores, calibrate

__all__ = ["Scores", "attribute", "calibrate", "evaluate", "load", "load_masked", "plot", "prompt"]
