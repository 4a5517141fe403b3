"""The benchmark from Python, without a workflow: what `import pisoft` offers.

It calls the same functions as the scripts of the workflow, so numbers are the same.
"""

from pisoft.api.attribution import attribute
from pisoft.api.evaluation import evaluate, plot
from pisoft.api.models import load, load_masked
from pisoft.api.prompts import prompt
from pisoft.api.scores import Scores, calibrate

__all__ = ["Scores", "attribute", "calibrate", "evaluate", "load", "load_masked", "plot", "prompt"]
