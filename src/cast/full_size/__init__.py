"""The paper at full size without a GPU: what it costs, whether it fits, how long it takes."""
