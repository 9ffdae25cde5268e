"""How many blocks fit on a card: what a model's config.json says of its KV cache, and the split of the card."""
