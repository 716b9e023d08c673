"""The mini zoo: tiny pipelines of the real diffusers and transformers classes, trained here.

`python -m cast.mini.zoo NAME` trains one model from nothing into `models/mini/NAME`. Killed at
any point, the same command goes on from the last checkpoint.
"""
