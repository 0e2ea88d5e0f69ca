"""Sockets, connections and processes of the doors."""
