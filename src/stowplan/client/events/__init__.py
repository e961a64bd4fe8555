"""Events as the scheduler writes them: recording, series, sending."""
