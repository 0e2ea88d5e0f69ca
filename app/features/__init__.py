"""From a Message to an Observation: the evidence that the models see."""
