"""goodput: of all the GPU-hours a training job held, how many trained the model, and where did the rest go?"""

__version__ = "0.1.0"
