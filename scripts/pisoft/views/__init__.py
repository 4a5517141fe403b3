"""Tables and figures: what each says of itself, and the results that it is made from."""
