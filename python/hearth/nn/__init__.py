"""Layers, losses and models, after PyTorch's."""

from . import functional, init, utils
from .attention import *
from .layers import *
from .losses import *
from .module import Module, ModuleDict, ModuleList, Parameter, ParameterList, Sequential
