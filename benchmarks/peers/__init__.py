"""Peers: Postbayes and other filters on the same streams, in the same run."""
