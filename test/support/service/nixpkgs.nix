# What flake.nix and deploy/nix use of nixpkgs, without nixpkgs: derivations are their arguments, scripts their texts.
let
  lib = {
    importJSON = path: builtins.fromJSON (builtins.readFile path);
    genAttrs = names: make: builtins.listToAttrs (map (name: { inherit name; value = make name; }) names);
    last = list: builtins.elemAt list (builtins.length list - 1);
    splitString = separator: text: builtins.filter builtins.isString (builtins.split separator text);
    inherit (builtins) mapAttrs;
    optional = condition: one: if condition then [ one ] else [ ];
    optionalAttrs = condition: some: if condition then some else { };
    cleanSource = path: path;
    getExe = program: "${program}/bin/${program.mainProgram}";
    licenses.asl20 = "Apache-2.0";
    mkEnableOption = description: { inherit description; };
    mkOption = option: option;
    mkIf = condition: config: if condition then config else { };
    types = {
      package = null;
      path = null;
      str = null;
      attrsOf = type: null;
      nullOr = type: null;
    };
  };
  npmLock = {
    __functor = self: arguments: arguments;
    npmConfigHook = null;
  };
  packages = system: rec {
    inherit lib;
    stdenv = {
      cc.cc.lib = null;
      hostPlatform = { inherit system; isLinux = true; };
    };
    nodejs_24 = { outPath = "/nix/node"; mainProgram = "node"; };
    postgresql = null;
    git = null;
    autoPatchelfHook = null;
    makeWrapper = null;
    importNpmLock = npmLock;
    buildNpmPackage = arguments: arguments // { type = "derivation"; outPath = "/nix/${arguments.pname}"; };
    writeShellScript = name: text: text;
    mkShell = arguments: arguments;
    callPackage =
      file: arguments:
      let
        make = import file;
        known = builtins.intersectAttrs (builtins.functionArgs make) (packages system);
      in
      make (known // arguments);
  };
  systems = [ "x86_64-linux" "aarch64-linux" "x86_64-darwin" "aarch64-darwin" ];
  flake = import ../../../flake.nix;
  outputs = flake.outputs {
    self = outputs // { rev = "0123456789abcdef"; };
    nixpkgs = { inherit lib; legacyPackages = lib.genAttrs systems packages; };
  };
  configured = outputs.nixosModules.default {
    inherit lib;
    pkgs = packages "x86_64-linux";
    config.services.bridge-service = {
      enable = true;
      package = outputs.packages.x86_64-linux.default;
      settings.SERVICE_BASE_URL = "https://bridge.example.com";
      environmentFile = "/etc/bridge-service.env";
    };
  };
  package = outputs.packages.x86_64-linux.default;
in
{
  systems = builtins.attrNames outputs.packages;
  package = {
    inherit (package) pname version npmBuildScript installPhase BUILD_COMMIT;
    inherit (package.meta) mainProgram;
    lock = package.npmDeps.packageLock.packages;
  };
  checks = builtins.attrNames outputs.checks.x86_64-linux;
  apps = builtins.mapAttrs (name: app: app.program) outputs.apps.x86_64-linux;
  shell = builtins.length outputs.devShells.x86_64-linux.default.packages;
  service = configured.config.systemd.services.bridge-service;
}
