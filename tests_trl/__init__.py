import os

os.environ["HF_HUB_OFFLINE"] = "1"  # read when huggingface_hub is imported, so before anything else
