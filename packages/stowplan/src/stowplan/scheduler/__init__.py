"""What decides: the cluster in columns, plugins, queue, preemption, engine."""
