"""Client credentials: kubeconfig, certificates, tokens, exec plugins."""
