"""The paper's own path (arXiv 2609.23085): a causal language model reads the query and writes the label of an arm.

Here is what is pure: prompts, training data with labels and rewards, the reward function, the router over a
scorer of labels. Training and model files are in `app/trl_training`, and need the extra `joulebook[trl]`.
"""
