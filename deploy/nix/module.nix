# services.bridge-service for NixOS, with the limits of deploy/bridge-service.service.
self:
{
  config,
  lib,
  pkgs,
  ...
}:
let
  cfg = config.services.bridge-service;
in
{
  options.services.bridge-service = {
    enable = lib.mkEnableOption "Bridge Service";
    package = lib.mkOption {
      type = lib.types.package;
      default = self.packages.${pkgs.stdenv.hostPlatform.system}.default;
      description = "The package to run.";
    };
    settings = lib.mkOption {
      type = lib.types.attrsOf lib.types.str;
      default = { };
      example = {
        SERVICE_BASE_URL = "https://bridge.example.com";
      };
      description = "Settings of docs/reference.md that are no secrets: the Nix store is readable by everybody.";
    };
    environmentFile = lib.mkOption {
      type = lib.types.nullOr lib.types.path;
      default = null;
      example = "/etc/bridge-service.env";
      description = "A file of mode 0600 with DATABASE_URL and the secrets. Without DATABASE_URL the service runs a PostgreSQL of its own.";
    };
  };

  config = lib.mkIf cfg.enable {
    users.users.bridge = {
      isSystemUser = true;
      group = "bridge";
    };
    users.groups.bridge = { };
    environment.systemPackages = [ cfg.package ];

    systemd.services.bridge-service = {
      description = "Bridge Service";
      wantedBy = [ "multi-user.target" ];
      wants = [ "network-online.target" ];
      after = [ "network-online.target" ];
      environment = {
        SERVICE_DATA_DIR = "/var/lib/bridge-service/data";
      }
      // cfg.settings;
      serviceConfig = {
        User = "bridge";
        Group = "bridge";
        EnvironmentFile = lib.optional (cfg.environmentFile != null) cfg.environmentFile;
        StateDirectory = "bridge-service";
        StateDirectoryMode = "0700";
        ExecStart = "${cfg.package}/bin/bridge-service start";
        KillMode = "mixed";
        TimeoutStopSec = 45;
        Restart = "on-failure";
        RestartSec = 2;
        RestartPreventExitStatus = 78;
        LimitNOFILE = 65536;
        LimitCORE = 0;
        UMask = "0077";
        NoNewPrivileges = true;
        CapabilityBoundingSet = "";
        AmbientCapabilities = "";
        ProtectSystem = "strict";
        ProtectHome = true;
        PrivateTmp = true;
        PrivateDevices = true;
        ProtectClock = true;
        ProtectControlGroups = true;
        ProtectHostname = true;
        ProtectKernelLogs = true;
        ProtectKernelModules = true;
        ProtectKernelTunables = true;
        ProtectProc = "invisible";
        RestrictAddressFamilies = [ "AF_INET" "AF_INET6" "AF_UNIX" "AF_NETLINK" ];
        RestrictNamespaces = true;
        RestrictRealtime = true;
        RestrictSUIDSGID = true;
        LockPersonality = true;
        SystemCallArchitectures = "native";
        SystemCallFilter = "@system-service";
        SystemCallErrorNumber = "EPERM";
      };
    };
  };
}
