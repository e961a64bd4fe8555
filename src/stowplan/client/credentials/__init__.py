"""Who we are at an API server: kubeconfigs, certificates, tokens, programs that hand out credentials."""
