"""Models as a PyTorch user writes them. They take the library as an argument: torch where the golden values are made,
hearth where they are tested. Nothing else differs."""


def models(lib):
    nn = lib.nn
    F = nn.functional

    class MLP(nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = nn.Sequential(nn.Linear(12, 16), nn.ReLU(), nn.Dropout(0.0), nn.Linear(16, 5))
            self.scale = nn.Parameter(lib.ones(5))

        def forward(self, x):
            return self.layers(x) * self.scale

    class CNN(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv1 = nn.Conv2d(2, 6, 3, padding=1)
            self.bn1 = nn.BatchNorm2d(6)
            self.conv2 = nn.Conv2d(6, 8, kernel_size=3, stride=2, bias=False)
            self.bn2 = nn.BatchNorm2d(8)
            self.pool = nn.MaxPool2d(2)
            self.norm = nn.GroupNorm(2, 8)
            self.fc = nn.Linear(8, 5)

        def forward(self, x):
            x = self.pool(F.relu(self.bn1(self.conv1(x))))
            x = F.silu(self.norm(self.bn2(self.conv2(x))))
            x = F.adaptive_avg_pool2d(x, 1)
            return self.fc(x.flatten(1))

    class Transformer(nn.Module):
        def __init__(self):
            super().__init__()
            self.embedding = nn.Embedding(11, 16)
            self.positions = nn.Parameter(lib.zeros(6, 16))
            layer = nn.TransformerEncoderLayer(16, 4, 32, dropout=0.0, activation="gelu", batch_first=True, norm_first=True)
            self.encoder = nn.TransformerEncoder(layer, 2, norm=nn.LayerNorm(16))
            self.head = nn.Linear(16, 5)

        def forward(self, tokens):
            mask = lib.triu(lib.ones(6, 6), 1) > 0
            x = self.embedding(tokens) + self.positions
            x = self.encoder(x, mask=mask)
            return self.head(x.mean(1))

    return {"mlp": MLP, "cnn": CNN, "transformer": Transformer}


def attention(lib):
    nn = lib.nn
    return {
        "plain": (nn.MultiheadAttention(16, 4), {}),
        "batch_first": (nn.MultiheadAttention(16, 4, batch_first=True, bias=False), {"average_attn_weights": False}),
        "other_sizes": (nn.MultiheadAttention(16, 2, kdim=16, vdim=16, add_bias_kv=True, add_zero_attn=True), {}),
    }


def optimizers(lib):
    optim = lib.optim
    return {
        "sgd": lambda p: optim.SGD(p, lr=0.1, momentum=0.9, nesterov=True, weight_decay=0.01),
        "adam": lambda p: optim.Adam(p, lr=0.01, amsgrad=True),
        "adamw": lambda p: optim.AdamW(p, lr=0.01, betas=(0.8, 0.99), weight_decay=0.1),
        "rmsprop": lambda p: optim.RMSprop(p, lr=0.01, momentum=0.5, centered=True),
        "adagrad": lambda p: optim.Adagrad(p, lr=0.05),
    }


def schedules(lib):
    s = lib.optim.lr_scheduler
    return {
        "step": lambda o: s.StepLR(o, 3, 0.5),
        "multi_step": lambda o: s.MultiStepLR(o, [2, 5], 0.3),
        "exponential": lambda o: s.ExponentialLR(o, 0.9),
        "linear": lambda o: s.LinearLR(o, 0.25, 1.0, 4),
        "polynomial": lambda o: s.PolynomialLR(o, 6, 2.0),
        "cosine": lambda o: s.CosineAnnealingLR(o, 8, 0.01),
        "restarts": lambda o: s.CosineAnnealingWarmRestarts(o, 3, 2),
        "lambda": lambda o: s.LambdaLR(o, lambda t: 0.95**t),
        "one_cycle": lambda o: s.OneCycleLR(o, max_lr=1.0, total_steps=10),
    }


LOSSES = {
    "MSELoss": {"reduction": "sum"}, "L1Loss": {}, "SmoothL1Loss": {"beta": 0.5}, "HuberLoss": {"delta": 0.5},
    "BCEWithLogitsLoss": {}, "CrossEntropyLoss": {"label_smoothing": 0.1}, "KLDivLoss": {"reduction": "sum"},
}
ACTIVATIONS = {
    "ReLU": (), "ReLU6": (), "LeakyReLU": (0.2,), "ELU": (0.7,), "CELU": (0.7,), "SELU": (), "GELU": (), "SiLU": (),
    "Mish": (), "Sigmoid": (), "LogSigmoid": (), "Softplus": (), "Softsign": (), "Tanh": (), "Tanhshrink": (),
    "Softshrink": (0.3,), "Hardshrink": (0.3,), "Hardtanh": (-0.5, 0.5), "Hardsigmoid": (), "Hardswish": (), "GLU": (1,),
    "Softmax": (1,), "LogSoftmax": (1,), "PReLU": (), "Flatten": (), "Identity": (),
}
