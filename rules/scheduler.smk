# What the run itself takes while thousands of its jobs are done.
from pisoft.timers import one_timer


onstart:
    one_timer(workflow.scheduler)
