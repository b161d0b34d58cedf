"""The planner alone, without TensorFlow: generated graphs, an exact oracle, and a table.

./run bench planner [options]; see planner.table.
"""
