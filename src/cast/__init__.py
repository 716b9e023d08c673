"""CAST: causal advantage-structured training of flow-matching image models."""
