"""The paper's methods: SVRGCG and the baselines it is compared with."""
