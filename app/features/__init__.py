"""Features: from a Message to an Observation, the input of the models."""
