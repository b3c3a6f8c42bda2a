"""A kube-scheduler as the simulator plays it, modelled from version 1.36."""
