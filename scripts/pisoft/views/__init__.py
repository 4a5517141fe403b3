"""Tables and figures: their descriptions and the results that they show."""
